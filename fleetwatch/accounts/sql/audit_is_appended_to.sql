-- The audit log is only appended to: whoever has the application's rights can change nothing in it.
CREATE FUNCTION audit_is_appended_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is only appended to';
END
$$;
CREATE TRIGGER audit_rows_stay BEFORE UPDATE OR DELETE ON accounts_auditentry
    FOR EACH ROW EXECUTE FUNCTION audit_is_appended_to();
CREATE TRIGGER audit_table_stays BEFORE TRUNCATE ON accounts_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_appended_to();
