"""APIs of users and their credentials, one file each."""
