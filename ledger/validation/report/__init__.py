"""Makes the report of a validation, in four forms: values, text, Parquet, and a page for a browser. The page needs
jinja2 and matplotlib, which the extra `bench` installs."""
