"""Rows made into values of the model, and values into rows.

Lives here: what each column holds, and the checks by which a row that cannot be read is set aside. No transactions.
"""
