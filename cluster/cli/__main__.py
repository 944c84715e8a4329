"""`python -m cluster.cli`: the same as `ledgermq`, for where the script is not on the PATH."""

from cluster.cli import main

if __name__ == "__main__":
    main()
