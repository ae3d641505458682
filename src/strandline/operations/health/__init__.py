"""What is wrong with a flow that runs, or ran: read from its journal, with the likely cause and the fix."""
