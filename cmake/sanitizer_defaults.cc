// Default options of the sanitizers in every program that is compiled with them, so that a program
// started by hand behaves as under ./dev check. The sanitizers call these functions by name;
// ASAN_OPTIONS and similar variables add to the options.

extern "C" {

// Debian names the symbolizer after its version, where the sanitizers do not look.
const char* __asan_default_options() {
  return "external_symbolizer_path=/usr/bin/llvm-symbolizer-19:detect_stack_use_after_return=1:"
         "strict_string_checks=1";
}
const char* __ubsan_default_options() {
  return "external_symbolizer_path=/usr/bin/llvm-symbolizer-19:print_stacktrace=1";
}
const char* __tsan_default_options() {
  return "external_symbolizer_path=/usr/bin/llvm-symbolizer-19:halt_on_error=1:"
         "second_deadlock_stack=1";
}
}
