// How the sanitizers run in our tests, without variables that somebody must set; each asks for the functions
// of its own. What is suppressed is here, with the reason.

extern "C" {

// Abort, so that a driver can say which input it was (tests/fuzz/driver.cpp). An allocation of more is a
// number that a file claims: malloc answers null, which Arrow turns into an error, and a `new` is a failure
// (in the fuzz targets, that of tests/fuzz/allocations.cpp).
const char* __asan_default_options() {
  return "abort_on_error=1:max_allocation_size_mb=4096:allocator_may_return_null=1";
}

const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

// LibTorch, OpenMP and the standard library are not instrumented: how they synchronize is not seen, so what
// they do with memory among themselves cannot be judged. Our own accesses are.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:halt_on_error=1"; }
}
