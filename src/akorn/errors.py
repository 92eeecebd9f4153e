"""The one exception for mistakes that a user can mend; the command line prints it as a line, with status 2."""


class AkornError(ValueError):
    """Bad input or an unusable file: the message says what is wrong, where, and what was expected."""
