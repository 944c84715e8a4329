"""The command `python -m cluster.cli` does the same as `ledgermq`, for environments in which `ledgermq` is not on
the PATH."""

from cluster.cli import main

if __name__ == "__main__":
    main()
