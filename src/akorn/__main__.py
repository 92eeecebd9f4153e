"""`python -m akorn`."""

from akorn.cli import main

if __name__ == "__main__":
    main()
