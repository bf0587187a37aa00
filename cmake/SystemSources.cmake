# VKFUSE_SYSTEM_LIBRARIES: libraries of the system that source/os calls.
# vkfuse_of_this_system(LIST): leaves out the sources of other systems. What systems do differently has one file for
# each side, in source/os and tests: *_posix.cpp and *_linux.cpp or *_macos.cpp, or *_windows.cpp; of tests,
# *_posix_test.cpp.
if(WIN32)
  set(VKFUSE_OTHER_SYSTEMS posix linux macos)
  set(VKFUSE_SYSTEM_LIBRARIES advapi32 ntdll)
elseif(APPLE)
  set(VKFUSE_OTHER_SYSTEMS linux windows)
else()
  set(VKFUSE_OTHER_SYSTEMS macos windows)
endif()

function(vkfuse_of_this_system list)
  set(sources ${${list}})
  foreach(system ${VKFUSE_OTHER_SYSTEMS})
    list(FILTER sources EXCLUDE REGEX "_${system}(_test)?\\.cpp$")
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
