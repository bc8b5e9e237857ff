// This file is empty because its target only precompiles torch_headers.h.
