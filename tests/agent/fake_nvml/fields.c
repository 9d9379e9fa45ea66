/* Field values. Part of fake_nvml.c.
 *   fields.INDEX ID:TYPE:VALUE,...   TYPE d u l q s i h (nvmlValueType_t 0 to 6), or e with an error as value
 * What is not named answers 0 (q); the recovery action (230) is newer than this driver, unless it is named.
 */
typedef struct { unsigned int id, scope; long long stamp, latency; int type; ret_t error; value_t value; } field_t;

enum { RECOVERY_ACTION = 230, TX_OF_LINKS = 138, RX_OF_LINKS = 139, ALL_LINKS = -1 };

static void put_value(field_t *field, char type, const char *text) {
    const char *types = "dulqsih";
    memset(&field->value, 0xff, sizeof field->value); /* reading the wrong member must not look right */
    field->type = (int)(strchr(types, type) - types);
    switch (type) {
    case 'd': field->value.d = strtod(text, NULL); break;
    case 'u': field->value.ui = (unsigned int)strtoul(text, NULL, 10); break;
    case 'l': field->value.ul = strtoul(text, NULL, 10); break;
    case 's': field->value.sll = strtoll(text, NULL, 10); break;
    case 'i': field->value.si = atoi(text); break;
    case 'h': field->value.us = (unsigned short)atoi(text); break;
    default: field->value.ull = strtoull(text, NULL, 10);
    }
}

static void answer_field(const char *text, field_t *field) {
    char copy[2048], *rest = copy, *part;
    field->error = field->id == RECOVERY_ACTION ? NOT_SUPPORTED : OK;
    put_value(field, 'q', "0");
    if ((field->id == TX_OF_LINKS || field->id == RX_OF_LINKS) && field->scope != (unsigned int)ALL_LINKS) field->error = INVALID;
    snprintf(copy, sizeof copy, "%s", text);
    while ((part = strtok_r(rest, ",", &rest))) {
        unsigned int id;
        char type, value[32];
        if (sscanf(part, "%u:%c:%31s", &id, &type, value) != 3 || id != field->id) continue;
        field->error = type == 'e' ? atoi(value) : OK;
        if (type != 'e') put_value(field, type, value);
    }
}

ret_t nvmlDeviceGetFieldValues(dev_t_ device, int count, field_t *fields) {
    char text[2048] = "";
    WHOLE(device)
    look_up("fields", index_of(device), text, sizeof text);
    for (int at = 0; at < count; at++) answer_field(text, &fields[at]);
    return OK;
}
