"""An app that writes down the framework's signals, in whichever process they are sent."""
