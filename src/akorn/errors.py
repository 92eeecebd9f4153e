"""The exception for mistakes that a user can fix; the command line prints it in one line, with exit status 2."""


class AkornError(ValueError):
    """Bad input or an unusable file: the message says what is wrong, where, and what was expected."""
