"""The version of ledgermq. The build reads it here, so a source tree knows its version without an installation."""

VERSION = "0.1.0"
