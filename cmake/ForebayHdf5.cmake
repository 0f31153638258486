# The HDF5 that the plugin is compiled against and the tests run with.
#
# -DHDF5_ROOT=PREFIX names one; otherwise tools/find-hdf5 looks for a suitable one or takes the build in the cache.
# With FOREBAY_THIRD_PARTY (ForebayThirdParty.cmake) and no HDF5_ROOT the headers are those of that folder: enough for
# the plugin and the command, which link no HDF5, and not for tests.
# All ways end in the variables FOREBAY_HDF5_{PREFIX,VERSION,INCLUDE_DIR,LIBRARY,PARALLEL,MPI,…}
# of hdf5.cmake in the build folder, and in two targets:
#   forebay::hdf5_headers  headers only, which is all that the plugin may use
#   forebay::hdf5          headers and library, for test and benchmark programs

set(HDF5_ROOT "" CACHE PATH "Prefix of the HDF5 (1.14.0 or later) to use; empty: find one, or use the cached build")

add_library(forebay_hdf5_headers INTERFACE)
add_library(forebay::hdf5_headers ALIAS forebay_hdf5_headers)

if(FOREBAY_THIRD_PARTY AND NOT HDF5_ROOT)
  if(FOREBAY_BUILD_TESTS OR FOREBAY_BUILD_BENCH)
    message(FATAL_ERROR "FOREBAY_THIRD_PARTY has HDF5's headers and no library: tests and bench want HDF5_ROOT too")
  endif()
  target_include_directories(forebay_hdf5_headers SYSTEM INTERFACE ${FOREBAY_THIRD_PARTY}/include)
  set(FOREBAY_HDF5_PARALLEL OFF)
  return()
endif()

set(choice ${PROJECT_BINARY_DIR}/hdf5.cmake)
set(find_command ${PROJECT_SOURCE_DIR}/tools/find-hdf5 --quiet --cmake ${choice} --env ${PROJECT_BINARY_DIR}/hdf5.env)
if(HDF5_ROOT)
  list(PREPEND find_command ${CMAKE_COMMAND} -E env HDF5_ROOT=${HDF5_ROOT})
endif()
execute_process(COMMAND ${find_command} RESULT_VARIABLE status ERROR_VARIABLE reason OUTPUT_QUIET
  ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${reason}")
endif()
include(${choice})
message(STATUS "HDF5 ${FOREBAY_HDF5_VERSION} in ${FOREBAY_HDF5_PREFIX} (parallel: ${FOREBAY_HDF5_PARALLEL})")

target_include_directories(forebay_hdf5_headers SYSTEM INTERFACE ${FOREBAY_HDF5_INCLUDE_DIR})

add_library(forebay_hdf5 SHARED IMPORTED GLOBAL)
add_library(forebay::hdf5 ALIAS forebay_hdf5)
set_target_properties(forebay_hdf5 PROPERTIES IMPORTED_LOCATION ${FOREBAY_HDF5_LIBRARY})
target_link_libraries(forebay_hdf5 INTERFACE forebay_hdf5_headers)

# The headers of a parallel HDF5 include mpi.h, and the MPI must be the one that HDF5 was built with.
if(FOREBAY_HDF5_PARALLEL)
  if(FOREBAY_HDF5_MPI)
    find_program(MPI_C_COMPILER NAMES mpicc.${FOREBAY_HDF5_MPI} mpicc)
    find_program(MPI_CXX_COMPILER NAMES mpicxx.${FOREBAY_HDF5_MPI} mpicxx)
    find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.${FOREBAY_HDF5_MPI} mpiexec)
  endif()
  set(MPI_CXX_SKIP_MPICXX ON CACHE BOOL "MPI's C++ bindings are not used")
  find_package(MPI REQUIRED COMPONENTS C CXX)
  target_include_directories(forebay_hdf5_headers SYSTEM INTERFACE ${MPI_C_INCLUDE_DIRS})
  target_link_libraries(forebay_hdf5 INTERFACE MPI::MPI_C)
endif()
