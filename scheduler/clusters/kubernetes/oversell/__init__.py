"""Slots that several workers share: which nodes may be, which GPUs a sharer gets, and how busy slots are."""
