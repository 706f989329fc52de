"""The objects that users write, as pydantic models: CRDs, checks and field tables all come from these."""
