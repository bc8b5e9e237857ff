// Empty: its target exists to compile torch_headers.h once.
