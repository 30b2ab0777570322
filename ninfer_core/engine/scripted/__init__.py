"""An engine that says what a file says: every part is the real one, only the program is scripted."""
