-- Notes each job whose owner may be another now, with the transaction that made it so: who keeps whose jobs are reads those anew that
-- transactions changed which it has not seen (figures/job_owners.py).
CREATE FUNCTION costs_note_owner_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'jobs_job' THEN
        INSERT INTO costs_ownerchange (job_id, transaction_id)
        VALUES (COALESCE(NEW.id, OLD.id), pg_current_xact_id()::text::bigint);
    ELSE
        INSERT INTO costs_ownerchange (job_id, transaction_id)
        VALUES (COALESCE(NEW.job_id, OLD.job_id), pg_current_xact_id()::text::bigint);
    END IF;
    RETURN NULL;
END
$$;
-- what the view costs_owned reads of a job
CREATE TRIGGER note_owner_of_job AFTER INSERT OR DELETE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION costs_note_owner_change();
CREATE TRIGGER note_other_owner_of_job AFTER UPDATE OF "user", account, team_id ON jobs_job
    FOR EACH ROW
    WHEN ((OLD."user", OLD.account, OLD.team_id) IS DISTINCT FROM (NEW."user", NEW.account, NEW.team_id))
    EXECUTE FUNCTION costs_note_owner_change();
CREATE TRIGGER note_attribution AFTER INSERT OR UPDATE OR DELETE ON costs_attribution
    FOR EACH ROW EXECUTE FUNCTION costs_note_owner_change();
