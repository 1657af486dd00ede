"""The check of all machines before training: is every one right, and as quick as the others?"""
