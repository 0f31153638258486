#include "identifier.h"

namespace differential {

herr_t close_identifier(hid_t id) {
    switch (H5Iget_type(id)) {
        case H5I_FILE: return H5Fclose(id);
        case H5I_GROUP: return H5Gclose(id);
        case H5I_DATASET: return H5Dclose(id);
        case H5I_DATATYPE: return H5Tclose(id);
        case H5I_DATASPACE: return H5Sclose(id);
        case H5I_ATTR: return H5Aclose(id);
        case H5I_GENPROP_LST: return H5Pclose(id);
        case H5I_EVENTSET: return H5ESclose(id);
        default: return H5Idec_ref(id) < 0 ? -1 : 0;
    }
}

}   // namespace differential
