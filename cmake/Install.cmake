# cmake --install: headers, the shared library, the programs, and how other builds find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS vkfuse_shared EXPORT vkfuseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(program vkfuse-command vkfuse-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET vkfuse_mpi_shared)
  install(TARGETS vkfuse_mpi_shared EXPORT vkfuseTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
# Without the importer its headers are not there either, nor are those of MPI without its library.
set(left_out)
if(NOT TARGET vkfuse_mpi_shared)
  set(left_out PATTERN "mpi.h" EXCLUDE PATTERN "mpi.hpp" EXCLUDE)
endif()
if(NOT TARGET vkfuse_onnx)
  list(APPEND left_out PATTERN "onnx.h" EXCLUDE PATTERN "onnx.hpp" EXCLUDE)
endif()
install(DIRECTORY include/vkfuse DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" ${left_out})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/vkfuse)
install(EXPORT vkfuseTargets NAMESPACE vkfuse:: DESTINATION ${package})
configure_package_config_file(cmake/vkfuseConfig.cmake.in vkfuseConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(vkfuseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vkfuseConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/vkfuseConfigVersion.cmake
  DESTINATION ${package})

file(RELATIVE_PATH VKFUSE_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/vkfuse.pc.in vkfuse.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/vkfuse.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
