"""The web pages, which drivers and the controller serve: their files, and the texts of their live updates."""
