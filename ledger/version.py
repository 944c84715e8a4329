"""The version of ledgermq. The package build reads the version from this file, so the version is known without an
installation."""

VERSION = "0.2.0.dev0"
