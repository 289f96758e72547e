"""The command `tidelog audit`: what it is asked, and how its report is drawn."""
