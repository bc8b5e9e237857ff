// Options of the sanitizers in our tests, so that no variables need to be set. Each sanitizer calls its own
// functions. Suppressions are here, with the reason.

extern "C" {

// Abort, so that a driver can name the input (tests/fuzz/driver.cpp). A larger allocation comes from a number
// that a file claims. Then malloc returns null, which Arrow turns into an error, and `new` fails (in the fuzz
// targets, the one of tests/fuzz/allocations.cpp).
const char* __asan_default_options() {
  return "abort_on_error=1:max_allocation_size_mb=4096:allocator_may_return_null=1";
}

const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

// LibTorch, OpenMP and the standard library are not instrumented. Their synchronization is not seen, so their
// own memory accesses cannot be judged. Accesses of our code are checked.
const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:halt_on_error=1"; }
}
