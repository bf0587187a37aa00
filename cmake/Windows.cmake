# What a build for Windows has besides.

# vkfuse_export_c(TARGET HEADER...): a DLL shows the C interface of these headers alone. Names of C++ are of one
# compiler there; programs in C++ link the static library.
function(vkfuse_export_c target)
  set(text "EXPORTS\n")
  foreach(name ${ARGN})
    set(header ${PROJECT_SOURCE_DIR}/include/vkfuse/${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^VKF_API ")
    foreach(line ${lines})
      if(NOT line MATCHES "(vkf_[a-z0-9_]+)\\(")
        message(FATAL_ERROR "No function's name is in the line '${line}' of ${header}.")
      endif()
      string(APPEND text "  ${CMAKE_MATCH_1}\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT vkfuse.def CONTENT "${text}" @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/vkfuse.def)
endfunction()

# vkfuse_windows_program(TARGET): its manifest asks for UTF-8 in arguments, paths and the environment, and for paths of
# more than 260 characters.
enable_language(RC)
function(vkfuse_windows_program target)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/program.rc)
endfunction()
