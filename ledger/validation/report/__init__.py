"""The report of a validation: values, text, Parquet, and a page for a browser. The page needs jinja2 and
matplotlib, which the extra `bench` installs."""
