// What a program that links the shared library may use. Everything else in it is hidden.
#pragma once

#if defined(__GNUC__) && !defined(_WIN32)
/// Stands between a namespace's name and its brace: what is declared inside is visible from outside the library.
#define VKFUSE_PUBLIC __attribute__((visibility("default")))
#else
#define VKFUSE_PUBLIC
#endif
