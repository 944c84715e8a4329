"""`python -m cluster.cli` does the same as `ledgermq`, which may not be on the PATH."""

from cluster.cli import main

if __name__ == "__main__":
    main()
