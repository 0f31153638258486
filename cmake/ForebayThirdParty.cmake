# The libraries that forebay's own code is compiled with: xxHash, fmt, nlohmann-json, CLI11 and toml++.
#
# They come from the machine. FOREBAY_THIRD_PARTY=FOLDER takes them, and HDF5's headers, from there instead:
# tools/fetch-headers fills such a folder, and a source distribution has one, third_party/. A wheel is built from it, or
# from what tools/fetch-headers gets, where the machine lacks something.
#
# Of xxHash and fmt the functions are compiled in (linked_in/), so neither the command nor the plugin wants a shared
# library of theirs. Targets: forebay::xxhash, forebay::fmt, nlohmann_json::nlohmann_json, CLI11::CLI11.

set(FOREBAY_THIRD_PARTY "" CACHE PATH
  "Headers of the libraries and of HDF5, from tools/fetch-headers; empty: the machine's")

# Of the libraries and HDF5 those that this machine lacks.
function(forebay_missing_headers variable)
  find_package(fmt QUIET)
  find_package(nlohmann_json QUIET)
  find_package(CLI11 QUIET)
  find_path(FOREBAY_XXHASH_INCLUDE_DIR xxhash.h)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/find-hdf5 --quiet
    RESULT_VARIABLE no_hdf5 OUTPUT_QUIET ERROR_QUIET)
  set(missing)
  foreach(name fmt nlohmann_json CLI11)
    if(NOT ${name}_FOUND)
      list(APPEND missing ${name})
    endif()
  endforeach()
  find_path(FOREBAY_TOML_INCLUDE_DIR toml++/toml.h)
  foreach(name XXHASH TOML)
    if(NOT FOREBAY_${name}_INCLUDE_DIR)
      list(APPEND missing ${name})
    endif()
  endforeach()
  if(no_hdf5 AND NOT HDF5_ROOT)
    list(APPEND missing HDF5)
  endif()
  set(${variable} ${missing} PARENT_SCOPE)
endfunction()

function(forebay_fetch_headers folder)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/fetch-headers ${folder}
    RESULT_VARIABLE status ERROR_VARIABLE reason ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${reason}")
  endif()
endfunction()

if(SKBUILD_STATE STREQUAL "sdist")
  set(FOREBAY_THIRD_PARTY ${PROJECT_SOURCE_DIR}/build/third_party)
  forebay_fetch_headers(${FOREBAY_THIRD_PARTY})
elseif(SKBUILD AND NOT FOREBAY_THIRD_PARTY)
  if(EXISTS ${PROJECT_SOURCE_DIR}/third_party/include)
    set(FOREBAY_THIRD_PARTY ${PROJECT_SOURCE_DIR}/third_party)
  else()
    forebay_missing_headers(missing)
    if(missing)
      message(STATUS "Not on this machine: ${missing}. Their headers are fetched.")
      set(FOREBAY_THIRD_PARTY ${PROJECT_BINARY_DIR}/third_party)
      forebay_fetch_headers(${FOREBAY_THIRD_PARTY})
    endif()
  endif()
endif()

# forebay_linked_in(NAME SOURCE FOLDER…): the target forebay::NAME, compiled here from headers in these folders.
function(forebay_linked_in name source)
  add_library(forebay_${name} STATIC ${PROJECT_SOURCE_DIR}/cmake/linked_in/${source})
  add_library(forebay::${name} ALIAS forebay_${name})
  target_include_directories(forebay_${name} SYSTEM PUBLIC ${ARGN})
endfunction()

# xxHash also for AVX2, which forebay_xxh3 chooses if the processor has it.
function(forebay_link_in_xxhash folder)
  forebay_linked_in(xxhash xxhash.c ${folder})
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_sources(forebay_xxhash PRIVATE ${PROJECT_SOURCE_DIR}/cmake/linked_in/xxhash_wide.c)
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/cmake/linked_in/xxhash_wide.c
      TARGET_DIRECTORY forebay_xxhash APPEND PROPERTY COMPILE_OPTIONS -mavx2)
    target_compile_definitions(forebay_xxhash PRIVATE FOREBAY_XXH3_AVX2)
  endif()
endfunction()

# fmt 10 checks its own format strings while it is compiled, in a way that clang refuses from 20 on.
function(forebay_relax_fmt)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 20)
    target_compile_definitions(forebay_fmt PUBLIC FMT_CONSTEVAL=)
  endif()
endfunction()

if(FOREBAY_THIRD_PARTY)
  forebay_link_in_xxhash(${FOREBAY_THIRD_PARTY}/include)
  forebay_linked_in(fmt fmt.cc ${FOREBAY_THIRD_PARTY}/include)
  forebay_relax_fmt()
  foreach(name nlohmann_json CLI11)
    add_library(${name} INTERFACE)
    add_library(${name}::${name} ALIAS ${name})
    target_include_directories(${name} SYSTEM INTERFACE ${FOREBAY_THIRD_PARTY}/include)
  endforeach()
else()
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  find_path(FOREBAY_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
  forebay_link_in_xxhash(${FOREBAY_XXHASH_INCLUDE_DIR})
  find_package(fmt REQUIRED)
  if(fmt_VERSION MATCHES "^(9|10)[.]")
    get_target_property(include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
    forebay_linked_in(fmt fmt.cc ${include})
    forebay_relax_fmt()
  else()   # what linked_in/fmt.cc leaves out of this version is not known, so the library is linked
    add_library(forebay::fmt ALIAS fmt::fmt)
  endif()
endif()
