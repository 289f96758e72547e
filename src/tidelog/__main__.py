"""`python -m tidelog` is the command `tidelog`."""

from tidelog.cli.main import main

if __name__ == "__main__":
    main()
