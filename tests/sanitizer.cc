// What the sanitizers are told by every test program; part of a sanitizer build only.

// Without this, a plugin that asks for a terabyte ends the process instead of getting nothing.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

// XLA's CPU compiler keeps a few attributes for good (IndexingMapAttr); a PJRT object that we leak is still
// reported.
extern "C" const char* __lsan_default_suppressions() { return "leak:IndexingMapAttr\n"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }
