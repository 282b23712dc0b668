"""What users and workers ask to be written: jobs, intents, bookings, recurring jobs, webhooks and shards.

Lives here: writes outside of ticks. They change no job's state: the next tick does.
"""
