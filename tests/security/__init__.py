"""What an attacker would try: each test or script here is an attack, and says what stands in its way."""
