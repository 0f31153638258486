-- An environment module for Lmod. `make install` puts it into share/modulefiles, with its own prefix as `root`:
-- module use /opt/forebay/share/modulefiles; module load forebay
--
-- Loading it makes the command and the plugin known and changes no program. Users switch forebay on with
-- `forebay run -- PROGRAM`, or for a whole job with `export HDF5_VOL_CONNECTOR=forebay`.
local root = "/opt/forebay"

help([[Node-local staging for HDF5: forebay run -- PROGRAM, forebay doctor, forebay help]])
whatis("Name: forebay")
whatis("Description: Node-local staging and a read cache for unmodified HDF5 programs")

prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("PYTHONPATH", pathJoin(root, "lib/python3.11/site-packages"))
prepend_path("CMAKE_PREFIX_PATH", root)
prepend_path("PKG_CONFIG_PATH", pathJoin(root, "lib/pkgconfig"))
-- Prepended, never set: a folder with filters that is in it stays.
prepend_path("HDF5_PLUGIN_PATH", pathJoin(root, "lib/hdf5/plugin"))
-- The node-local directory of this site, where it is the same on all nodes:
-- setenv("FOREBAY_NLS", "/local/scratch")
