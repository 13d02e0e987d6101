"""The subcommands of `manage.py jobs`: one module each, with HELP, add_arguments and handle."""
