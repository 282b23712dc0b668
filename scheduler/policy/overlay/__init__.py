"""Bookings and foreign pods, translated into placeholder jobs.

Lives here: worlds that are changed before a plan is made, and plans that are translated back after it, so that the rest
of the planner knows neither bookings nor others.
"""
