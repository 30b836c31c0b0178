// What the sanitizers are told by every test program; part of a sanitizer build only.

// Without this, a plugin that asks for a terabyte ends the process instead of getting nothing.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
