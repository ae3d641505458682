"""`python -m strandline`: the command line."""

from strandline.cli.main import main

if __name__ == "__main__":
    main()
