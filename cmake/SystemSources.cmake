# vkfuse_of_this_system(LIST): leaves out the sources of other systems. source/os has one file for each side of what
# systems do differently: *_posix.cpp and *_linux.cpp or *_macos.cpp, or *_windows.cpp.
if(WIN32)
  set(VKFUSE_OTHER_SYSTEMS posix linux macos)
elseif(APPLE)
  set(VKFUSE_OTHER_SYSTEMS linux windows)
else()
  set(VKFUSE_OTHER_SYSTEMS macos windows)
endif()

function(vkfuse_of_this_system list)
  set(sources ${${list}})
  foreach(system ${VKFUSE_OTHER_SYSTEMS})
    list(FILTER sources EXCLUDE REGEX "/os/[a-z_]*_${system}\\.cpp$")
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
