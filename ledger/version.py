"""The version of ledgermq. The package build reads the version from this file; no installation is needed to know it."""

VERSION = "0.1.0"
