"""One module per API: its messages as tables, all versions at once, and what each version changed."""
