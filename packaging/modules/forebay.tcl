#%Module
# forebay.lua for Environment Modules, which do not read Lua.
set root "/opt/forebay"

proc ModulesHelp { } {
    puts stderr "Node-local staging for HDF5: forebay run -- PROGRAM, forebay doctor, forebay help"
}
module-whatis "Name: forebay"
module-whatis "Description: Node-local staging and a read cache for unmodified HDF5 programs"

prepend-path PATH "$root/bin"
prepend-path PYTHONPATH "$root/lib/python3.11/site-packages"
prepend-path CMAKE_PREFIX_PATH "$root"
prepend-path PKG_CONFIG_PATH "$root/lib/pkgconfig"
# Prepended, never set: a folder with filters that is in it stays.
prepend-path HDF5_PLUGIN_PATH "$root/lib/hdf5/plugin"
# The node-local directory of this site, where it is the same on all nodes:
# setenv FOREBAY_NLS "/local/scratch"
