// What the sanitizers are told in every program that they are compiled into, so that one started by
// hand behaves as under ./dev check. They call these functions by name; ASAN_OPTIONS and its like
// add to the options.

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
