"""Who resolved an incident, and whom a line of its history names, are columns; texts leave the
names open.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# texts of before had the names in them; who was told then stands in the notifications
OPEN_NAMES = """
UPDATE alerts_incidentevent SET text = regexp_replace(
    regexp_replace(text, ' by [^:]*', ' by {by}'),
    '^given to (?!nobody ).* by \\{by\\}', 'given to {person} by {by}'
) WHERE kind IN ('ack', 'snooze', 'resolve', 'assign', 'not_waste', 'fixed');
UPDATE alerts_incidentevent SET text = regexp_replace(text, '^[^:]* by ([^:]*): .*', '{person} by \\1')
WHERE kind IN ('told_opened', 'told_step', 'told_reminder', 'told_resolved') AND text ~ ': because ';
UPDATE alerts_incidentevent SET text = '{person}' WHERE kind = 'told_later';
UPDATE alerts_incident SET resolution = regexp_replace(resolution, ' by [^:]*', ' by {by}')
WHERE resolution ~ '^(resolved|fixed) by ';
UPDATE alerts_incident AS incident SET resolved_by_id = event.by_id
FROM alerts_incidentevent AS event
WHERE event.incident_id = incident.id AND event.kind IN ('resolve', 'fixed')
    AND incident.resolution LIKE '% by {by}%';
UPDATE alerts_notification SET why = CASE
    WHEN why LIKE 'because it was given to %' THEN 'because it was given to them'
    WHEN why LIKE 'because it is %' THEN 'because it is theirs'
    ELSE regexp_replace(why, '^because (.*) is .*$', 'because they are \\1')
END WHERE why LIKE 'because %';
"""


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0002_incidents'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='incident',
            name='resolved_by',
            field=models.ForeignKey(help_text='by hand; None: it was over by itself', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='incidentevent',
            name='person',
            field=models.ForeignKey(help_text='who was told, or whom it was given to', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='incident',
            name='resolution',
            field=models.CharField(blank=True, default='', help_text='why it was resolved; names are left open (open_names.py)', max_length=200),
        ),
        migrations.AlterField(
            model_name='incidentevent',
            name='text',
            field=models.CharField(blank=True, default='', help_text='in words; names are left open (open_names.py)', max_length=400),
        ),
        migrations.AlterField(
            model_name='incidentgroup',
            name='key',
            field=models.CharField(help_text='grouping.py', max_length=640),
        ),
        migrations.RunSQL(OPEN_NAMES, migrations.RunSQL.noop),
    ]
