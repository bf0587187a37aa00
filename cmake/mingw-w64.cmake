# Cross-builds for 64-bit Windows with mingw-w64 (posix threads); scripts/windows.sh prepares what it links.
#   cmake --toolchain cmake/mingw-w64.cmake -DVKFUSE_WINDOWS_PREFIX=FOLDER ...
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)

# Headers and libraries of the prefix alone: those of the host are of another system. Programs run on the host.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VKFUSE_WINDOWS_PREFIX)
set(CMAKE_FIND_ROOT_PATH ${VKFUSE_WINDOWS_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# What runs tests of ctest.
set(CMAKE_CROSSCOMPILING_EMULATOR wine)

# Objects of templates have more sections than the format's first version counts. GNU ld takes hours for the library.
set(CMAKE_CXX_FLAGS_INIT "-Wa,-mbig-obj")
# The run-time library of the compiler inside: programs need no file beside them that Windows does not have.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-fuse-ld=lld -static-libgcc -static-libstdc++ -static")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-fuse-ld=lld -static-libgcc -static-libstdc++ -static")
