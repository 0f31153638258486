# A recipe for Spack: put it into packages/forebay/ of a repository of your own, and name a release below.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Forebay(CMakePackage):
    """Node-local staging and a read cache in front of a parallel file system, for unmodified HDF5 programs."""

    license("BSD-3-Clause")

    git = "file:///path/to/forebay"  # where your clone is

    version("main", branch="main")

    variant("mpi", default=True, description="Build the adapter for the MPI of this environment")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hdf5@1.14:")
    depends_on("hdf5+mpi", when="+mpi")
    depends_on("mpi", when="+mpi")
    depends_on("xxhash")
    depends_on("fmt@9:10")
    depends_on("nlohmann-json@3.9:")
    depends_on("cli11")
    depends_on("tomlplusplus")

    conflicts("%gcc@:10", msg="C++20 is needed: GCC 11 or later")

    def cmake_args(self):
        return [
            self.define("FOREBAY_BUILD_TESTS", False),
            self.define("FOREBAY_BUILD_BENCH", False),
            self.define("HDF5_ROOT", self.spec["hdf5"].prefix),
            self.define_from_variant("FOREBAY_BUILD_MPI", "mpi"),
            self.define("CMAKE_INSTALL_LIBDIR", "lib"),
        ]

    def setup_run_environment(self, env):
        # The folder only: a user, or a site's module, switches forebay on with HDF5_VOL_CONNECTOR=forebay.
        env.prepend_path("HDF5_PLUGIN_PATH", join_path(self.prefix.lib, "hdf5", "plugin"))
