"""The routes of the API, one module for each noun. A route checks a request and reads or stores; it never decides."""
