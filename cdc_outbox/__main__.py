"""``python -m cdc_outbox`` is the ``cdc-outbox`` command."""

from cdc_outbox.cli import main

if __name__ == "__main__":
    main()
